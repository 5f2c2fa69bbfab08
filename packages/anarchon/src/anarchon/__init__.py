"""
Schedule jobs on every instance of a service, and run each slot once.
"""
