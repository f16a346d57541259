"""Names of connections to what opens them: environment first, then files. A secret never leaves through repr or an error."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import parse_qsl, quote, unquote, urlencode, urlsplit

from dpone_contract.environment import CONNECTIONS_DIR, connection_variables
from dpone_contract.errors import ConnectionInvalidError, ConnectionMissingError
from dpone_contract.manifest import DatabaseType

_SCHEMES = {"postgres": DatabaseType.POSTGRES, "postgresql": DatabaseType.POSTGRES}


@dataclass(frozen=True)
class ResolvedConnection:
    """A connection ready to open. `shown` names the place without user or password, `origin` where it was configured."""

    name: str
    dsn: str = field(repr=False)
    shown: str
    origin: str


def resolve_connection(name: str, kind: DatabaseType, environ: Mapping[str, str]) -> ResolvedConnection:
    """Find a connection: DPONE_CONN_<NAME> (URI), AIRFLOW_CONN_<NAME> (URI or JSON), DPONE_CONNECTIONS_DIR/<name>.

    Errors: ConnectionMissingError naming where it was looked for; ConnectionInvalidError for a value of another kind.
    """
    variables = connection_variables(name)
    for variable in variables:
        if environ.get(variable, "").strip():
            return _read(name, environ[variable].strip(), kind, variable)
    folder = environ.get(CONNECTIONS_DIR)
    if folder:
        path = Path(folder) / name
        try:
            if path.is_file():
                return _read(
                    name, path.read_text(encoding="utf-8").strip(), kind, f"{CONNECTIONS_DIR}/{name}"
                )
        except (OSError, UnicodeDecodeError) as error:
            raise ConnectionInvalidError(
                f"the file of connection {name} cannot be read",
                where=f"{CONNECTIONS_DIR}/{name}",
                next_step="put a URI into it, as UTF-8 text that this user may read",
            ) from error
    raise ConnectionMissingError(
        f"no connection {name!r} is configured",
        where=f"looked for {', '.join(variables)}" + (f" and {CONNECTIONS_DIR}/{name}" if folder else ""),
        next_step=f"export {variables[0]}=postgresql://user:password@host:5432/database",
    )


def _read(name: str, text: str, kind: DatabaseType, origin: str) -> ResolvedConnection:
    uri = _uri_of_json(name, text, origin) if text.startswith("{") else text
    try:
        parts = urlsplit(uri)
        port = f":{parts.port}" if parts.port else ""
    except ValueError as error:
        raise _invalid(name, origin, "it is not a URI") from error
    found = _SCHEMES.get(parts.scheme)
    if not parts.scheme or "://" not in uri:
        raise _invalid(name, origin, "it is not a URI")
    if found is None or found is not kind:
        raise _invalid(name, origin, f"its scheme is {parts.scheme}, the manifest says {kind.value}")
    # Airflow adds keys of its own to the query; libpq refuses a key that it does not know.
    query = _query([(key, value) for key, value in parse_qsl(parts.query) if not key.startswith("__")])
    netloc = parts.netloc
    dsn = f"postgresql://{netloc}{parts.path}" + (f"?{query}" if query else "")
    database = unquote(parts.path.lstrip("/"))
    return ResolvedConnection(name, dsn, f"{parts.hostname or 'local'}{port}/{database}", origin)


def _uri_of_json(name: str, text: str, origin: str) -> str:
    try:
        fields = json.loads(text)
    except ValueError as error:
        raise _invalid(name, origin, "it is not JSON") from error
    kind = str(fields.get("conn_type", ""))
    login = quote(str(fields.get("login") or ""), safe="")
    password = quote(str(fields.get("password") or ""), safe="")
    user = f"{login}:{password}@" if password else (f"{login}@" if login else "")
    port = f":{fields['port']}" if fields.get("port") else ""
    try:
        query = _query(_extra_options(fields.get("extra")))
    except ValueError as error:
        raise _invalid(name, origin, "its extra is not JSON") from error
    path = quote(str(fields.get("schema") or ""))
    return f"{kind}://{user}{fields.get('host') or ''}{port}/{path}" + (f"?{query}" if query else "")


def _extra_options(extra: object) -> list[tuple[str, str]]:
    """Give the options in Airflow's extra: an object, or its JSON text; ValueError for other text.

    What cannot be read is not passed over: it may have asked for TLS.
    """
    if isinstance(extra, str):
        extra = json.loads(extra) if extra.strip() else {}
    if not isinstance(extra, dict):
        return []
    return [(key, value) for key, value in extra.items() if isinstance(value, str)]


def _query(options: list[tuple[str, str]]) -> str:
    # libpq reads %20 as a space, and a plus sign as a plus sign.
    return urlencode(options, quote_via=quote)


def _invalid(name: str, origin: str, reason: str) -> ConnectionInvalidError:
    return ConnectionInvalidError(
        f"connection {name} cannot be used: {reason}",
        where=origin,
        next_step="give a URI such as postgresql://user:password@host:5432/database",
    )
