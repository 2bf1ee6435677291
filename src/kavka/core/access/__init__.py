"""Access control: principals, ACLs, and the decision whether a principal may do something with a resource."""
