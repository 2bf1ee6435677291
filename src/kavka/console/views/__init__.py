"""Views: plain values that pages show and the API returns, made of the cluster's answers by pure functions."""
