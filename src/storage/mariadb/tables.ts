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
  readonly attempt: string
  readonly block: string
  readonly worker: string
  readonly requestKey: string
  readonly meta: string
  readonly migration: string
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
    attempt: of('job_attempt'),
    block: of('job_block'),
    worker: of('fleet_worker'),
    requestKey: of('request_key'),
    meta: of('signalbox_meta'),
    migration: of('signalbox_migration'),
  }
}
