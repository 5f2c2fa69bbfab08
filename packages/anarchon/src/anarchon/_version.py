"""
The only version string in the repository: every distribution reads this file.
"""

__version__ = "0.1.0"
