-- Locks of a run whose ledger is a file: it has no row in this database that could guard its transactions.

-- name: run_alive
-- A row while some session holds the lock, which none but the run's own fence ever takes. No row: the run is over.
SELECT 1 WHERE NOT pg_try_advisory_xact_lock_shared(:lock)
