import type { Migration } from '../../migration-plan.ts'

/**
 * Tokens that may only connect as certain nodes. Their scope is written as `node`, which the release before does not know
 * and takes for no right at all: a server that cannot keep such a token to its nodes lets it do nothing.
 */
export const nodeTokensMigration: Migration = {
  number: 11,
  name: 'node tokens',
  oldest: 9,
  statements: [
    `ALTER TABLE access_token
  MODIFY COLUMN scope ENUM ('read', 'work', 'admin', 'node') NOT NULL,
  ADD COLUMN IF NOT EXISTS nodes MEDIUMTEXT NULL`,
  ],
}
