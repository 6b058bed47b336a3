"""The broker: takes messages, keeps them, hands them out."""
