"""Lanes as child processes: a fresh interpreter each, in a session of its own, spoken to in bounded JSON frames.

::

    coordinator                         lane
        | start                           | setsid, faulthandler, die with the parent
        | <---------------- ready --------|
        |------------------ open -------->| connects source and sink
        | <---------------- opened -------|   (or broken: the run ends before any claim)
        |------------------ load -------->| one chunk, one transaction
        | <------- heartbeat, progress ---|
        | <---- committed | failed | busy | lease_lost | commit_unknown
        |------------------ stop -------->| ends
"""
