"""A streaming standby of an embedded server, made by `pg_basebackup`: a read replica as a source."""

from __future__ import annotations

from pathlib import Path

from quickstart.embedded_postgres import EmbeddedPostgres


class StandbyPostgres(EmbeddedPostgres):
    """Replays what its primary does, and takes queries meanwhile; users and passwords are the primary's."""

    def __init__(self, primary: EmbeddedPostgres) -> None:
        super().__init__()
        self._primary_uri = primary.uri()
        self._program = primary.bin("pg_basebackup")
        self.password = primary.password

    def _initdb_command(self, installation: Path, folder: Path, password_file: Path) -> list[str]:
        """Copy the primary instead of making a cluster."""
        program = installation / "bin" / self._program.name
        command = [str(program), "-D", str(folder / "data"), "-d", self._primary_uri]
        return [*command, "--write-recovery-conf", "--wal-method=stream", "--checkpoint=fast", "--no-sync"]
