"""The exactly-once sink: tasks leave transactions prepared, one record of the driver decides about all of a batch.

commit_protocol              the steps of plan, task and commit, and why they are safe. Pure
decisions, digest            the record of a decision; rows as a digest. Pure
writers                      the methods that Spark calls
task_writer                  in a task: writes rows in a transaction, leaves it prepared
task_transactional_ids       the ids of those transactions
driver, decision_log         in the driver: plans, decides, ends transactions; reads the last decision
sinks                        the sinks of a cluster: list, check, remove
"""
