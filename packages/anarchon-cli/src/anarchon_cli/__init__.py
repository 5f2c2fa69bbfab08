"""
Run a scheduler and read its history from a shell.
"""
