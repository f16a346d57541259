"""Compiler of a project: manifests and catalog in, checks and a fingerprinted pack out."""
