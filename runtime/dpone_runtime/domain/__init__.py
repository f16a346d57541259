"""Pure state and rules of campaigns, chunks and leases.

A chunk's life, in one round of its campaign::

    (no row) -> running -> committed
                 |  ^
                 |  +---- failed, pending (released), running with a lapsed lease
                 +------> failed | pending

A campaign's life::

    open -> complete -> open (a new round)
     |  ^
     |  +--- cancel_requested, halted (resumed with a reason), any state (restarted)
     +-----> cancel_requested -> closed (by an opener of the same target)
     +-----> halted (too many failed chunks) -> cancel_requested

Absence of a row is never "done".
"""
