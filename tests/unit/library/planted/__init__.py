"""Operators for ``opcheck``: planted mistakes by family, and correct ones that look suspicious.

Each module has a list ``ENTRIES``. An entry that names a check is a mistake which that check has to
find, with words of the explanation; an entry without one is correct and has to pass.
"""
