"""
Judge a backend for anarchon, clause by clause.
"""
