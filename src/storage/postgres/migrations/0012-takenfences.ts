import type { Migration } from '../../migration-plan.ts'

/**
 * Which fence a job was last handed out with: a fence is for one claim. And a job that is called to its line anew is there
 * for whoever looks first, not only when those who tended it have had their time. The release before works on as it did.
 */
export function takenFences(s: string): Migration {
  const nowMs = `floor(extract(epoch FROM clock_timestamp()) * 1000)::bigint`
  return {
    number: 12,
    name: 'taken fences',
    oldest: 9,
    statements: [
      `ALTER TABLE ${s}.job_lock ADD COLUMN taken_fence bigint`,
      `CREATE OR REPLACE FUNCTION ${s}.signalbox_shut(ns text, one text, given_no bigint, any_fence boolean, seen_fence bigint)
RETURNS boolean LANGUAGE plpgsql AS $$
BEGIN
  PERFORM FROM ${s}.job_pending p WHERE p.namespace = ns AND p.id = one FOR UPDATE;
  UPDATE ${s}.job_lock k SET fence = NULL, ask_no = k.ask_no + 1, is_called = true, tended_until = 0
  WHERE k.namespace = ns AND k.job_id = one AND k.ask_no = given_no
    AND (any_fence OR k.fence IS NOT DISTINCT FROM seen_fence);
  IF NOT FOUND THEN RETURN false; END IF;
  UPDATE ${s}.job_pending p SET state = 'waiting', updated_at = ${nowMs}
  WHERE p.namespace = ns AND p.id = one AND p.state <> 'waiting';
  RETURN true;
END $$`,
    ],
  }
}
