import type { Migration } from '../../migration-plan.ts'

/**
 * Tokens that may only connect as certain nodes. Their scope is written as `node`, which the release before does not know
 * and takes for no right at all: a server that cannot keep such a token to its nodes lets it do nothing.
 */
export function nodeTokens(s: string): Migration {
  return {
    number: 11,
    name: 'node tokens',
    oldest: 9,
    statements: [
      `ALTER TABLE ${s}.access_token
  ADD COLUMN nodes text,
  DROP CONSTRAINT access_token_scope_check,
  ADD CONSTRAINT access_token_scope_check CHECK (scope IN ('read', 'work', 'admin', 'node'))`,
    ],
  }
}
