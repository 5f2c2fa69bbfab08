"""
Keep anarchon's runs in one SQLite file.
"""
