package fleet

import (
	"github.com/bluenviron/gomavlib/v3/pkg/dialect"
	"github.com/bluenviron/gomavlib/v3/pkg/dialects/common"
	"github.com/bluenviron/gomavlib/v3/pkg/message"
)

// leaderDialect is the part of the common dialect that the leader uses. The whole
// dialect would add 240 message types to the program; other messages arrive as raw
// frames and are ignored.
var leaderDialect = &dialect.Dialect{
	Version: 3,
	Messages: []message.Message{
		&common.MessageHeartbeat{},
		&common.MessageSysStatus{},
		&common.MessageParamRequestRead{},
		&common.MessageParamValue{},
		&common.MessageGlobalPositionInt{},
		&common.MessageCommandLong{},
		&common.MessageSetPositionTargetGlobalInt{},
		&common.MessageBatteryStatus{},
		&common.MessageExtendedSysState{},
		&common.MessageStatustext{},
		&common.MessageNamedValueFloat{},
		&common.MessageCommandAck{},
	},
}
