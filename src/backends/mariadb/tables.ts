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
    meta: of('signalbox_meta'),
    migration: of('signalbox_migration'),
  }
}
