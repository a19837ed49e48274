module mintleaf.dev/porcupine

go 1.22

// Linearizability, by a checker that is not Mintleaf's.
require github.com/anishathalye/porcupine v1.3.1
