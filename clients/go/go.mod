module mintleaf.dev/go

go 1.22
