"""What is learned from what: one file per task, with its lesson, its models and how they are saved."""
