"""Request processors of the broker, one class and one slice of the command table each."""
