// Rows of GORM over SQLite with ids from Mintleaf: a hook gives each row its id before it is inserted, and eight writers
// insert 10,000 rows.
//
//	MINTLEAF=http://localhost:8080 go run ./gorm
package main

import (
	"context"
	"fmt"
	"log"
	"os"
	"strings"
	"sync"

	"github.com/glebarez/sqlite"
	"gorm.io/gorm"
	"gorm.io/gorm/logger"
	"mintleaf.dev/go"
)

// ids is the one client of the process.
var ids *mintleaf.Client

// Order is a row. Its id is a Mintleaf id, unless the program has set one.
type Order struct {
	ID   int64 `gorm:"primaryKey;autoIncrement:false"`
	Item string
}

// BeforeCreate runs for each row of an insert, also in a batch.
func (o *Order) BeforeCreate(tx *gorm.DB) (err error) {
	if o.ID == 0 {
		o.ID, err = ids.NextID(tx.Statement.Context, "orders")
	}
	return err
}

func main() {
	endpoints := os.Getenv("MINTLEAF")
	if endpoints == "" {
		endpoints = "http://localhost:8080"
	}
	var err error
	if ids, err = mintleaf.New(mintleaf.Config{Endpoints: strings.Split(endpoints, ",")}); err != nil {
		log.Fatal(err)
	}
	defer ids.Close()
	db, err := gorm.Open(sqlite.Open(":memory:"), &gorm.Config{Logger: logger.Default.LogMode(logger.Error)})
	if err != nil {
		log.Fatal(err)
	}
	// Each connection to :memory: has a database of its own.
	pool, err := db.DB()
	if err != nil {
		log.Fatal(err)
	}
	pool.SetMaxOpenConns(1)
	if err := db.AutoMigrate(&Order{}); err != nil {
		log.Fatal(err)
	}

	var writers sync.WaitGroup
	for writer := range 8 {
		writers.Add(1)
		go func() {
			defer writers.Done()
			for range 5 {
				orders := make([]Order, 250)
				for i := range orders {
					orders[i].Item = fmt.Sprintf("of writer %d", writer)
				}
				if err := db.WithContext(context.Background()).Create(&orders).Error; err != nil {
					log.Fatal(err)
				}
			}
		}()
	}
	writers.Wait()

	var rows, distinct int64
	db.Model(&Order{}).Count(&rows)
	db.Model(&Order{}).Distinct("id").Count(&distinct)
	fmt.Printf("%d rows, %d distinct ids, %d requests\n", rows, distinct, ids.Stats().Requests)
}
