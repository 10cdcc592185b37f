"""What the journals of all nodes tell together: tables, questions, alerts and reports on Spark."""
