package ledger_test

import (
	"fmt"
	"log"
	"os"

	"prefdt/firmware/account"
	"prefdt/firmware/ledger"
	"prefdt/firmware/mission"
)

// What one process has settled, the next one finds.
func ExampleLedger() {
	folder, err := os.MkdirTemp("", "ledger")
	if err != nil {
		log.Fatal(err)
	}
	defer os.RemoveAll(folder)

	l, err := ledger.Open(folder)
	if err != nil {
		log.Fatal(err)
	}
	state := ledger.State{State: mission.State{Mission: "m-1", Phase: "flying"}}
	// Once this returns, slot 0 is on the disk.
	if err := l.WriteRows(state, []account.Row{{Slot: 0, EnergyJ: 412.5, DelayS: 1.9}}); err != nil {
		log.Fatal(err)
	}
	l.Close()

	restarted, err := ledger.Open(folder)
	if err != nil {
		log.Fatal(err)
	}
	defer restarted.Close()
	found, _, err := restarted.Load()
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(found.Mission, found.Phase)
	flights, err := restarted.Flights()
	if err != nil {
		log.Fatal(err)
	}
	for _, r := range flights[0].Rows {
		fmt.Printf("slot %d of %s: %g J, %g s\n", r.Slot, r.Mission, r.EnergyJ, r.DelayS)
	}
	// Output:
	// m-1 flying
	// slot 0 of m-1: 412.5 J, 1.9 s
}
