"""Testing of applications: a cluster in the test's process, a pytest fixture, and histories to be checked. The product
does not import this package."""
