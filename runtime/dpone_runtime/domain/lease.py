"""Leases: who may finish a chunk, until when. A lease is scoped to its attempt, never to a host or a process."""

from __future__ import annotations

import secrets
from datetime import timedelta
from typing import NewType

OwnerToken = NewType("OwnerToken", str)

LEASE_TTL = timedelta(seconds=90)
"""How long a claim lasts without renewal, so that a killed process is replaceable within two minutes."""

RENEW_EVERY = timedelta(seconds=30)

BUSY_WAIT = LEASE_TTL + timedelta(seconds=30)
"""How long a run waits for chunks that others hold, after it has taken what was free."""


def new_owner() -> OwnerToken:
    """Give a fresh random token; every attempt of every chunk gets its own."""
    return OwnerToken(secrets.token_hex(16))
