"""What the controller decides: which topics may be, where their replicas are placed."""
