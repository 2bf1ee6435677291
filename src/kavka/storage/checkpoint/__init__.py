"""Small text files beside the logs, which are replaced whole: offsets, leader epochs, ids, the mark of a clean stop."""
