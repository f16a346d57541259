"""Everything that touches the world: databases, child processes, files. Only `bootstrap` names an adapter."""
