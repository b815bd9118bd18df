/**
 * The data that `signalbox copy` carries between engines: every table, in a form that is independent of the engines. A
 * row is a list of texts, one for each column in the order given here; whole numbers are decimal, booleans are 0 and 1.
 * The engines' own tables differ, and each engine's copy shapes define how it reads and writes such rows. Equal rows
 * mean equal content on any two engines, and a copy is verified by a hash over them.
 *
 * No lease is copied: a copy begins only when no lease is live. So a token from before the copy belongs to no lease in
 * the target, and numbers continue above the highest one that was ever given.
 */
export interface CopyTable {
  readonly name: string
  /** The columns that identify and order the rows, byte by byte on every engine. */
  readonly key: readonly string[]
  readonly columns: readonly CopyColumn[]
}

export interface CopyColumn {
  readonly name: string
  readonly type: 'text' | 'whole' | 'truth'
  /** False: the column is copied, but engines give it different meanings. */
  readonly isCompared: boolean
}

/** One value of a row. */
export type Cell = string | null
/** The values in the order of the table's columns. */
export type CopyRow = readonly Cell[]

/** Numbers that must continue to rise in the target. */
export interface CopyNumbers {
  /** The highest lease number of a job. */
  readonly leaseNo: number
  /** The highest fencing token of a lock. */
  readonly lockToken: number
}

/** `name` is text, `name#` a whole number, `name?` a boolean; `~name` is copied, but not compared. */
function table(name: string, key: string, columns: string): CopyTable {
  return {
    name,
    key: key.split(' '),
    columns: columns
      .trim()
      .split(/\s+/)
      .map((column) => ({
        name: column.replaceAll(/[~#?]/g, ''),
        type: column.endsWith('#') ? 'whole' : column.endsWith('?') ? 'truth' : 'text',
        isCompared: !column.startsWith('~'),
      })),
  }
}

const series = `queue kind added# started# completed# failed# dead# cancelled# ready# running# run_times wait_times`
const subject = 'subject source time_slot venue_id'

/** In the order of the copy: jobs first, because they are the most. */
export const copyTables: readonly CopyTable[] = [
  table(
    'job_queue',
    'namespace id',
    `namespace id queue kind payload priority# unique_key state attempt# max_attempts# hand_back_count# snooze_count#
     run_at# created_at# updated_at# started_at# worker_id backoff timeout_ms# error meta`,
  ),
  table(
    'job_history',
    'namespace id',
    `namespace id queue kind payload priority# unique_key state attempt# max_attempts# hand_back_count# snooze_count#
     run_at# created_at# started_at# finished_at# worker_id backoff timeout_ms# result error cancel_ignored? meta`,
  ),
  table(
    'job_progress',
    'namespace job_id attempt',
    'namespace job_id attempt# progress progress_at# line_count# line_bytes# dropped_count# dropped_at# noted_at#',
  ),
  table(
    'job_log',
    'namespace job_id attempt number',
    'namespace job_id attempt# number# level text logged_at#',
  ),
  table(
    'job_attempt',
    'namespace job_id number',
    `namespace job_id number# attempt# queue kind outcome worker_id release started_at# ended_at# fingerprint error`,
  ),
  table(
    'job_error_group',
    'namespace fingerprint',
    `namespace fingerprint kind attempt_count# first_seen_at# last_seen_at# releases sample_jobs error`,
  ),
  table('job_block', 'namespace job_id number', 'namespace job_id number# cause started_at# ended_at#'),
  table('job_dependency', 'namespace job_id dependency_id', 'namespace job_id dependency_id is_met?'),
  table(
    'job_lock',
    'namespace job_id',
    'namespace job_id operation resource ask_no# fence# is_called? tended_until# taken_fence#',
  ),
  table(
    'job_schedule',
    'namespace name',
    'namespace name version# is_paused? next_at# last_slot_at# last_fired_at# created_at# doc',
  ),
  table('queue_control', 'namespace queue', 'namespace queue paused_at# limits'),
  table('job_rate', 'namespace queue limit_key', 'namespace queue limit_key starts ~expires_at#'),
  table(
    'once_guard',
    'namespace space guard_key',
    `namespace space guard_key status mode attempt# token_no# token_nonce fingerprint result claimed_at# keep_ms#
     ends_at#`,
  ),
  table('once_window', 'namespace window_key', 'namespace window_key value ends_at#'),
  table('monitor_rules', 'namespace', 'namespace revision#'),
  table('monitor_subscription', 'namespace id', 'namespace id name match_on channel options created_at#'),
  table('monitor_silence', 'namespace id', 'namespace id match_on comment starts_at# ends_at#'),
  table(
    'monitor_subject',
    'namespace subject',
    `namespace ${subject} version# state state_hash observed_at# changed_at# memory`,
  ),
  table(
    'monitor_window',
    'namespace subject subscription_id state_hash',
    'namespace subject subscription_id state_hash status notification_id notified_at# ends_at#',
  ),
  table(
    'monitor_decision',
    'namespace id',
    `namespace id ${subject} task_id reason from_hash to_hash from_text to_text event_id observed_at# verdicts
     decided_at#`,
  ),
  table(
    'monitor_notification',
    'namespace id',
    `namespace id subscription_id channel ${subject} decision_id event_id kind from_state to_state state_hash window_ms#
     max_attempts# status attempt# due_at# created_at# finished_at# error possible_repeat? digest_id`,
  ),
  table('monitor_channel', 'namespace channel', 'namespace channel wanted? state'),
  table('access_token', 'id', 'namespace id name scope nodes digest created_at# expires_at# revoked_at#'),
  table(
    'request_key',
    'namespace caller key',
    'namespace caller key fingerprint answer created_at# expires_at#',
  ),
  table('audit_entry', 'namespace id', 'namespace id at# actor actor_name action target outcome code'),
  table('fleet_board', 'namespace', 'namespace version# forgotten#'),
  table('fleet_row', 'namespace kind row_key', 'namespace kind row_key version# doc expires_at#'),
  table(
    'series_part',
    'namespace bucket_at source series_key',
    `namespace bucket_at# source series_key ${series}`,
  ),
  table(
    'series_bucket',
    'namespace step_ms bucket_at series_key',
    `namespace step_ms# bucket_at# series_key ${series}`,
  ),
  table('series_total', 'namespace series_key', `namespace series_key ${series}`),
  table('series_mark', 'namespace', 'namespace tens_until# hours_until#'),
  // The remaining time of wait-queue leases is not copied: as after a boot of the host, every lease starts again.
  table(
    'lock_queue',
    'namespace operation resource',
    `namespace operation resource attempt# revision# waiter_count# holder_node holder_request_id token# holder_attempt#
     holder_since# holder_ttl_ms# holder_seq# is_called? progress last_outcome last_node last_attempt# last_at#
     last_value`,
  ),
  table(
    'lock_waiter',
    'namespace operation resource seq',
    'namespace operation resource seq# node request_id want ttl_ms# since# has_deadline? is_streamed?',
  ),
  table(
    'lock_outcome',
    'namespace operation resource node request_id',
    'namespace operation resource node request_id seq# kind value is_notified? revision#',
  ),
]

/** Tables whose rows refer to each other on some engine. When one of a group is copied again, all of the group are. */
export const copyGroups: readonly (readonly string[])[] = [
  ['job_progress', 'job_log'],
  ['lock_queue', 'lock_waiter', 'lock_outcome'],
]

/** The values of a row's key. */
export function keyOf(table: CopyTable): (row: CopyRow) => readonly string[] {
  const places = table.key.map((key) => table.columns.findIndex(({ name }) => name === key))
  return (row) => places.map((place) => row[place]!)
}

/** The engines' tables that a copy does not read, and why it loses nothing. */
export const leftBehind: Readonly<Record<string, string>> = {
  fleet_worker: 'is of leases; workers write their rows anew on the target',
  signalbox_meta: 'names the store itself, and the boot that its leases count from',
  signalbox_migration: 'is what the schema of each database knows of itself',
  copy_progress: 'is how far a copy has come, and goes with its end',
  job_cancel: 'asks something of a running attempt, and none runs',
  job_dead: 'follows from the history, and is written with it',
  lock_result: 'follows from how lines ended, and is written with that',
  lock_shard: 'has only a number that must rise, which is carried apart',
}

/** The engines' columns that a copy does not write, by table, and why it loses nothing. */
export const leftColumns: Readonly<Record<string, Readonly<Record<string, string>>>> = {
  job_queue: {
    lease_nonce: 'is of a lease',
    lease_ends_at: 'is of a lease',
    settled_tokens: 'serves only workers of earlier attempts, which are gone',
    room: 'keeps a place blank',
  },
  job_history: {
    lease_nonce: 'is of a lease',
    settled_tokens: 'serves only workers of earlier attempts, which are gone',
  },
  queue_control: {
    key_position: 'is where the next claim goes on; it begins again at the first key',
  },
  monitor_channel: { token: 'is of a lease', lease_ends_at: 'is of a lease' },
  monitor_subject: { seen: 'is a number of the table’s own' },
  monitor_notification: { made: 'is a number of the table’s own' },
  once_guard: { guard: 'is a number of the table’s own' },
  once_window: {
    seen: 'is a number of the table’s own',
    opened_by: 'is of the call that opened the window',
    opened_at: 'is of the call that opened the window',
  },
  fleet_row: {
    removed_at: 'is of rows that were removed, which are not carried',
  },
  lock_queue: { queue_id: 'is a number of the table’s own' },
}
