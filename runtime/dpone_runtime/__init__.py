"""Executor of one pack: it turns a mapped item or a whole campaign into committed chunks, and the ledger decides."""
