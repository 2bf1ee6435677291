"""Coordinators of groups and transactions as a broker runs them, and what leaders do for transactions."""
