"""What all parts of dpone must agree on: identities, plans, packs, items, outcomes and errors.

Pure: bytes, text and plain values go in, models come out. Nothing here opens a file, a socket or a clock, so that the builder, the
Airflow provider and the runtime can each re-derive what another of them has written.
"""
