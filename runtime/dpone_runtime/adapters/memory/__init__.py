"""The ledger in memory: what the port means, without a database. For tests and for reading."""
