"""One module a kind of window: how its bounds are read, counted by arithmetic, and given one at a time as text.

A window is plain values. It gives bound 0 to bound `count()` as text in the one canonical form of its kind, strictly
ascending; chunk k lies between bound k - 1 and bound k.
"""
