"""What the nights of a fleet show. Pure: decisions over what the database counted and averaged."""
