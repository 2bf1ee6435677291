"""Testing of applications: a cluster in the test's process, a pytest fixture, and a checker of histories.

The product does not import this package.
"""
