"""A ledger in a folder of one machine: what a campaign has done, without a database of its own.

Two files a campaign:

    <run_key>.journal.jsonl   every change in order, one line of JSON each under a checksum; only ever appended to. The authority.
    <run_key>.json            how the campaign stands, for people; and a mark in the journal, by which a cut is noticed.

A change is the lines of one append; it is done once they are on the disk. Lines that a crash has left without their end are no
change, and the next writer cuts them off. `.lock` of the folder is held for each change, `<run_key>.lock` for as long as a run lasts.

    opened, claimed, ...            after every line           at a campaign's change, at the end,
    append and fsync  ------------> the index in memory -----> and every few seconds: <run_key>.json
"""
