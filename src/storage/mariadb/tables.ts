/**
 * The tables' names, qualified by the database: a caller's connection, on which acks and adds also run, may have
 * another default database than ours.
 */
export interface Tables {
  readonly queue: string
  readonly history: string
  readonly dead: string
  readonly cancel: string
  readonly control: string
  readonly rate: string
  readonly dependency: string
  readonly jobLock: string
  readonly progress: string
  readonly log: string
  readonly requestKey: string
  readonly locks: LockTables
  readonly guard: string
  readonly subscription: string
  readonly fleet: FleetTables
  readonly meta: string
  readonly migration: string
}

/** The tables of wait queues. */
export interface LockTables {
  readonly queue: string
  readonly waiter: string
  readonly outcome: string
  readonly result: string
  readonly shard: string
}

/** The tables of the fleet's board. */
export interface FleetTables {
  readonly board: string
  readonly row: string
}

export function qualifyTables(database: string): Tables {
  const of = (table: string) => `\`${database.replaceAll('`', '``')}\`.${table}`
  return {
    queue: of('job_queue'),
    history: of('job_history'),
    dead: of('job_dead'),
    cancel: of('job_cancel'),
    control: of('queue_control'),
    rate: of('job_rate'),
    dependency: of('job_dependency'),
    jobLock: of('job_lock'),
    progress: of('job_progress'),
    log: of('job_log'),
    requestKey: of('request_key'),
    locks: {
      queue: of('lock_queue'),
      waiter: of('lock_waiter'),
      outcome: of('lock_outcome'),
      result: of('lock_result'),
      shard: of('lock_shard'),
    },
    guard: of('once_guard'),
    subscription: of('monitor_subscription'),
    fleet: { board: of('fleet_board'), row: of('fleet_row') },
    meta: of('signalbox_meta'),
    migration: of('signalbox_migration'),
  }
}
