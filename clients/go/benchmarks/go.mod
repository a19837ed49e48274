module mintleaf.dev/go/benchmarks

go 1.22

require (
	github.com/bwmarrin/snowflake v0.3.0
	github.com/sony/sonyflake v1.2.0
	mintleaf.dev/go v0.0.0
)

replace mintleaf.dev/go => ../
