"""
Load the conformance kit into pytest.
"""
