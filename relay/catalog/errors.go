package catalog

// Code is the stable name of a refusal: the API's "code", the text of metrics.
type Code string

// Class is what kind of refusal it is.
type Class uint8

// The classes, with the HTTP status that the API answers.
const (
	Invalid  Class = iota // 400: what was sent is wrong
	NotFound              // 404: the thing addressed is not there
	Conflict              // 409: right in itself, and not possible as things are
)

// The codes.
const (
	NameRequired    Code = "name_required"
	NameInvalid     Code = "name_invalid"
	NameTaken       Code = "name_taken" // 409
	NameFixed       Code = "name_fixed" // a name cannot be changed
	OwnedByFile     Code = "owned_by_file"
	GatewayNotFound Code = "gateway_not_found"
	PoolNotFound    Code = "pool_not_found"
	RouteNotFound   Code = "route_not_found"
	MemberNotFound  Code = "member_not_found"

	InvalidDial          Code = "invalid_dial"
	InvalidProxyProtocol Code = "invalid_proxy_protocol"
	InvalidPort          Code = "invalid_port"
	InvalidCheck         Code = "invalid_check"
	GatewayInUse         Code = "gateway_in_use" // 409, with counts

	InvalidPolicy   Code = "invalid_policy"
	InvalidFailback Code = "invalid_failback"
	InvalidSetting  Code = "invalid_setting"
	InvalidOutage   Code = "invalid_outage"
	InvalidWeight   Code = "invalid_weight"
	DuplicateMember Code = "duplicate_member"
	TooManyMembers  Code = "too_many_members"
	PoolInUse       Code = "pool_in_use"        // 409, with counts
	LastMemberInUse Code = "last_member_in_use" // 409

	InvalidKind           Code = "invalid_kind"
	InvalidHost           Code = "invalid_host"
	HostRequired          Code = "host_required"
	HostTaken             Code = "host_taken" // 409
	PortTaken             Code = "port_taken" // 409, with a free one
	ConflictingTarget     Code = "conflicting_target"
	TargetRequired        Code = "target_required" // neither gateway nor pool; or no LAN target where one is needed
	TargetGatewayNotFound Code = "target_gateway_not_found"
	TargetPoolNotFound    Code = "target_pool_not_found"
	TargetPoolEmpty       Code = "target_pool_empty"
	TargetPoolDisabled    Code = "target_pool_disabled"
	TargetHostInvalid     Code = "target_host_invalid"
	TargetPortInvalid     Code = "target_port_invalid"
	ListenerNotFound      Code = "listener_not_found"
	RoutesRequired        Code = "routes_required"
	ItemsRequired         Code = "items_required"
	BackupInvalid         Code = "backup_invalid"
)

// Error is a refusal. It holds no secret.
type Error struct {
	Class  Class
	Code   Code
	Field  string // the setting to change, like "members[1].gateway"; may be empty
	Detail string // one sentence for people
	// Counts says how many of what stand in the way: {"routes": 3}.
	Counts map[string]int
	// Suggest is a free port, for PortTaken.
	Suggest int
}

// Error implements error.
func (e *Error) Error() string { return string(e.Code) + ": " + e.Detail }
