//! Classic group membership (JoinGroup, SyncGroup, Heartbeat, LeaveGroup) and the group tool's ListGroups, DescribeGroups and
//! DeleteGroups. The rules of the state are in [`crate::group`]; here they meet requests and waiting.

use std::time::Duration;

use bytes::Bytes;
use kafka_protocol::ResponseError;
use kafka_protocol::messages::delete_groups_response::DeletableGroupResult;
use kafka_protocol::messages::describe_groups_response::{DescribedGroup, DescribedGroupMember};
use kafka_protocol::messages::join_group_response::JoinGroupResponseMember;
use kafka_protocol::messages::leave_group_request::MemberIdentity;
use kafka_protocol::messages::leave_group_response::MemberResponse;
use kafka_protocol::messages::list_groups_response::ListedGroup;
use kafka_protocol::messages::{
    DeleteGroupsRequest, DeleteGroupsResponse, DescribeGroupsRequest, DescribeGroupsResponse, GroupId,
    HeartbeatRequest, HeartbeatResponse, JoinGroupRequest, JoinGroupResponse, LeaveGroupRequest, LeaveGroupResponse,
    ListGroupsRequest, ListGroupsResponse, SyncGroupRequest, SyncGroupResponse,
};
use kafka_protocol::protocol::StrBytes;
use tokio::sync::watch;
use tokio::time::Instant;

use super::offsets::check_coordinator;
use super::{Context, code};
use crate::group::{Group, GroupState, Member};
use crate::state::{Cluster, Shared, random, text};

/// From here on a new member is told its id first and joins with it (KIP-394).
const MEMBER_ID_REQUIRED: i16 = 4;
/// From here on several members can leave at once (KIP-345).
const LEAVE_MANY: i16 = 3;
/// From here on an unknown group is an error and not a dead group (KIP-1043).
const DESCRIBE_NOT_FOUND: i16 = 6;
const GROUP_TYPE: &str = "classic";

pub(super) async fn join(shared: &Shared, context: &Context, request: JoinGroupRequest) -> JoinGroupResponse {
    let mut changes = shared.changes();
    let group_id = request.group_id.to_string();
    let id = match shared.update(|cluster| begin_join(cluster, context, &request)) {
        Ok(id) => id,
        Err((error, id)) => return failed_join(error, &id),
    };
    let joined = wait_for(shared, &mut changes, &group_id, |group| {
        let Some(member) = group.member_mut(&id) else { return Some(Err(ResponseError::UnknownMemberId)) };
        member.joined_generation.take().map(Ok)
    });
    let generation = match joined.await {
        Ok(generation) => generation,
        Err(error) => return failed_join(error, &id),
    };
    shared.with(|cluster| {
        let Some(group) = cluster.groups.get(&group_id) else {
            return failed_join(ResponseError::UnknownMemberId, &id);
        };
        let leader = group.leader();
        let protocol = group.protocol.clone().unwrap_or_default();
        let members = group.members.iter().filter(|_| leader == id).map(|member| {
            JoinGroupResponseMember::default()
                .with_member_id(text(&member.id))
                .with_group_instance_id(member.instance_id.as_deref().map(text))
                .with_metadata(member.metadata(&protocol))
        });
        JoinGroupResponse::default()
            .with_generation_id(generation)
            .with_protocol_type(group.protocol_type.as_deref().map(text))
            .with_protocol_name(Some(text(&protocol)))
            .with_leader(text(leader))
            .with_member_id(text(&id))
            .with_members(members.collect())
    })
}

fn failed_join(error: ResponseError, id: &str) -> JoinGroupResponse {
    JoinGroupResponse::default()
        .with_error_code(error.code())
        .with_generation_id(-1)
        .with_protocol_name(Some(StrBytes::new()))
        .with_member_id(text(id))
}

/// Puts the member in; the error comes with the id to tell.
fn begin_join(
    cluster: &mut Cluster,
    context: &Context,
    request: &JoinGroupRequest,
) -> Result<String, (ResponseError, String)> {
    let asked_id = request.member_id.to_string();
    let fail = |error: ResponseError| (error, request.member_id.to_string());
    context.check_whole().map_err(fail)?;
    check_coordinator(cluster, context, &request.group_id).map_err(fail)?;
    if request.group_id.is_empty() {
        return Err(fail(ResponseError::InvalidGroupId));
    }
    let now = Instant::now();
    let group = cluster.groups.entry(request.group_id.to_string()).or_default();
    group.expire(now);
    let same_type = group.members.is_empty() || group.protocol_type.as_deref() == Some(request.protocol_type.as_str());
    if !same_type || request.protocols.is_empty() {
        return Err(fail(ResponseError::InconsistentGroupProtocol));
    }
    let instance_id = request.group_instance_id.as_ref().map(|id| id.to_string());
    let id = if asked_id.is_empty() {
        let id = format!("{}-{:016x}", instance_id.as_deref().unwrap_or(&context.client_id), random());
        if context.version >= MEMBER_ID_REQUIRED && instance_id.is_none() {
            group.pending_members.insert(id.clone());
            return Err((ResponseError::MemberIdRequired, id));
        }
        id
    } else if group.pending_members.contains(&asked_id) || group.member_mut(&asked_id).is_some() {
        asked_id
    } else {
        return Err(fail(ResponseError::UnknownMemberId));
    };
    group.protocol_type = Some(request.protocol_type.to_string());
    // Version 0 has one time for both.
    let rebalance_timeout_ms = request.rebalance_timeout_ms.max(request.session_timeout_ms);
    let member = Member {
        id: id.clone(),
        instance_id,
        client_id: context.client_id.clone(),
        client_host: context.client_host.clone(),
        session_timeout: milliseconds(request.session_timeout_ms),
        rebalance_timeout: milliseconds(rebalance_timeout_ms),
        protocols: request.protocols.iter().map(|p| (p.name.to_string(), p.metadata.clone())).collect(),
        assignment: Bytes::new(),
        last_seen: now,
        is_joining: true,
        joined_generation: None,
    };
    group.join(member, now);
    Ok(id)
}

fn milliseconds(ms: i32) -> Duration {
    Duration::from_millis(u64::try_from(ms).unwrap_or(0))
}

/// Waits until `ready` says something about the group.
async fn wait_for<T>(
    shared: &Shared,
    changes: &mut watch::Receiver<u64>,
    group_id: &str,
    mut ready: impl FnMut(&mut Group) -> Option<Result<T, ResponseError>>,
) -> Result<T, ResponseError> {
    loop {
        changes.borrow_and_update();
        let (answer, until) = shared.with(|cluster| {
            let Some(group) = cluster.groups.get_mut(group_id) else {
                return (Some(Err(ResponseError::UnknownMemberId)), None);
            };
            group.expire(Instant::now());
            (ready(group), group.next_expiry())
        });
        if let Some(answer) = answer {
            return answer;
        }
        let changed = changes.changed();
        match until {
            Some(until) => {
                // A timeout means that a member or the rebalance expires, which the next turn sees.
                let _ = tokio::time::timeout_at(until, changed).await;
            }
            // The sender lives as long as the state, so this only ends with a change.
            None => drop(changed.await),
        }
    }
}

pub(super) async fn sync(shared: &Shared, context: &Context, request: SyncGroupRequest) -> SyncGroupResponse {
    let mut changes = shared.changes();
    let group_id = request.group_id.to_string();
    let member_id = request.member_id.to_string();
    let generation = request.generation_id;
    let begun = shared.update(|cluster| {
        context.check_whole()?;
        check_coordinator(cluster, context, &group_id)?;
        let group = cluster.groups.get_mut(&group_id).ok_or(ResponseError::UnknownMemberId)?;
        group.expire(Instant::now());
        group.check_member(&member_id, generation, Instant::now())?;
        if group.state == GroupState::CompletingRebalance && group.leader() == member_id {
            let assignments = request.assignments.into_iter();
            group.assign(assignments.map(|a| (a.member_id.to_string(), a.assignment)).collect());
        }
        Ok(())
    });
    let assigned = match begun {
        Err(error) => Err(error),
        Ok(()) => {
            wait_for(shared, &mut changes, &group_id, |group| {
                if group.generation != generation {
                    return Some(Err(ResponseError::RebalanceInProgress));
                }
                match group.state {
                    GroupState::CompletingRebalance => None,
                    GroupState::Stable => {
                        let (protocol_type, protocol) = (group.protocol_type.clone(), group.protocol.clone());
                        let member = group.member_mut(&member_id).ok_or(ResponseError::UnknownMemberId);
                        Some(member.map(|member| (protocol_type, protocol, member.assignment.clone())))
                    }
                    GroupState::Empty | GroupState::PreparingRebalance => Some(Err(ResponseError::RebalanceInProgress)),
                }
            })
            .await
        }
    };
    let response = SyncGroupResponse::default().with_error_code(code(&assigned));
    match assigned {
        Ok((protocol_type, protocol, assignment)) => response
            .with_protocol_type(protocol_type.as_deref().map(text))
            .with_protocol_name(protocol.as_deref().map(text))
            .with_assignment(assignment),
        Err(_) => response,
    }
}

pub(super) fn heartbeat(cluster: &mut Cluster, context: &Context, request: &HeartbeatRequest) -> HeartbeatResponse {
    let now = Instant::now();
    let beat = context.check_whole().and_then(|()| {
        check_coordinator(cluster, context, &request.group_id)?;
        let group = cluster.groups.get_mut(request.group_id.as_str()).ok_or(ResponseError::UnknownMemberId)?;
        group.expire(now);
        group.check_member(&request.member_id, request.generation_id, now)?;
        if group.state == GroupState::PreparingRebalance { Err(ResponseError::RebalanceInProgress) } else { Ok(()) }
    });
    HeartbeatResponse::default().with_error_code(code(&beat))
}

pub(super) fn leave(cluster: &mut Cluster, context: &Context, request: LeaveGroupRequest) -> LeaveGroupResponse {
    let checked = context.check_whole().and_then(|()| check_coordinator(cluster, context, &request.group_id));
    if let Err(error) = checked {
        return LeaveGroupResponse::default().with_error_code(error.code());
    }
    let mut group = cluster.groups.get_mut(request.group_id.as_str());
    let mut leave_one = |identity: &MemberIdentity| {
        let group = group.as_mut().ok_or(ResponseError::UnknownMemberId)?;
        let instance = identity.group_instance_id.as_ref().map(StrBytes::as_str);
        let by_instance =
            group.members.iter().find(|member| instance.is_some() && member.instance_id.as_deref() == instance);
        let id = by_instance.map_or_else(|| identity.member_id.to_string(), |member| member.id.clone());
        if group.leave(&id, Instant::now()) { Ok(()) } else { Err(ResponseError::UnknownMemberId) }
    };
    if context.version < LEAVE_MANY {
        let left = leave_one(&MemberIdentity::default().with_member_id(request.member_id.clone()));
        return LeaveGroupResponse::default().with_error_code(code(&left));
    }
    let members = request.members.into_iter().map(|identity| {
        let left = leave_one(&identity);
        MemberResponse::default()
            .with_member_id(identity.member_id)
            .with_group_instance_id(identity.group_instance_id)
            .with_error_code(code(&left))
    });
    LeaveGroupResponse::default().with_members(members.collect())
}

pub(super) fn list(cluster: &mut Cluster, context: &Context, request: &ListGroupsRequest) -> ListGroupsResponse {
    if let Err(error) = context.check_whole() {
        return ListGroupsResponse::default().with_error_code(error.code());
    }
    let now = Instant::now();
    cluster.groups.values_mut().for_each(|group| group.expire(now));
    let is_asked = |filter: &[StrBytes], value: &str| {
        filter.is_empty() || filter.iter().any(|wanted| wanted.eq_ignore_ascii_case(value))
    };
    let groups = cluster
        .groups
        .iter()
        .filter(|(id, _)| cluster.coordinator(id) == context.node)
        .filter(|(_, group)| is_asked(&request.states_filter, group.state.name()))
        .filter(|_| is_asked(&request.types_filter, GROUP_TYPE))
        .map(|(id, group)| {
            let mut listed = ListedGroup::default()
                .with_group_id(GroupId(text(id)))
                .with_protocol_type(text(group.protocol_type.as_deref().unwrap_or_default()));
            if context.version >= 4 {
                listed.group_state = text(group.state.name());
            }
            if context.version >= 5 {
                listed.group_type = StrBytes::from_static_str(GROUP_TYPE);
            }
            listed
        });
    ListGroupsResponse::default().with_groups(groups.collect())
}

pub(super) fn describe(
    cluster: &mut Cluster,
    context: &Context,
    request: DescribeGroupsRequest,
) -> DescribeGroupsResponse {
    let groups = request.groups.into_iter().map(|id| {
        let checked = context.check_whole().and_then(|()| check_coordinator(cluster, context, &id));
        let described = DescribedGroup::default().with_group_id(id.clone()).with_error_code(code(&checked));
        if checked.is_err() {
            return described;
        }
        let Some(group) = cluster.groups.get_mut(id.as_str()) else {
            let dead = described.with_group_state(StrBytes::from_static_str("Dead"));
            if context.version < DESCRIBE_NOT_FOUND {
                return dead;
            }
            let error = ResponseError::GroupIdNotFound;
            return dead.with_error_code(error.code()).with_error_message(Some(text(&error.to_string())));
        };
        group.expire(Instant::now());
        let protocol = group.protocol.clone().unwrap_or_default();
        let members = group.members.iter().map(|member| {
            let described = DescribedGroupMember::default()
                .with_member_id(text(&member.id))
                .with_client_id(text(&member.client_id))
                .with_client_host(text(&member.client_host))
                .with_member_metadata(member.metadata(&protocol))
                .with_member_assignment(member.assignment.clone());
            let instance_id = member.instance_id.as_deref().filter(|_| context.version >= 4);
            described.with_group_instance_id(instance_id.map(text))
        });
        described
            .with_group_state(StrBytes::from_static_str(group.state.name()))
            .with_protocol_type(text(group.protocol_type.as_deref().unwrap_or_default()))
            .with_protocol_data(text(&protocol))
            .with_members(members.collect())
    });
    DescribeGroupsResponse::default().with_groups(groups.collect())
}

pub(super) fn delete(cluster: &mut Cluster, context: &Context, request: DeleteGroupsRequest) -> DeleteGroupsResponse {
    let results = request.groups_names.into_iter().map(|id| {
        let deleted = context.check_whole().and_then(|()| {
            check_coordinator(cluster, context, &id)?;
            let group = cluster.groups.get_mut(id.as_str()).ok_or(ResponseError::GroupIdNotFound)?;
            group.expire(Instant::now());
            if !group.members.is_empty() {
                return Err(ResponseError::NonEmptyGroup);
            }
            cluster.groups.remove(id.as_str());
            Ok(())
        });
        DeletableGroupResult::default().with_group_id(id).with_error_code(code(&deleted))
    });
    DeleteGroupsResponse::default().with_results(results.collect())
}
