"""PostgreSQL: sessions, the ledger's queries, and binary COPY from a source into a slice of a target."""
