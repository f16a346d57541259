"""The ledger of any SQL database, written once: named queries in, rows out; each dialect brings its own `.sql` files."""
