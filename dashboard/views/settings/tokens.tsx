import { type ReactNode, useState } from 'react'
import type { Client } from '../../../src/http/client/index.ts'
import { Action } from '../../kit/action.tsx'
import { Confirm } from '../../kit/confirm.tsx'
import { Empty } from '../../kit/empty.tsx'
import { Loaded } from '../../kit/loaded.tsx'
import { Section } from '../../kit/page.tsx'
import { Pager } from '../../kit/pager.tsx'
import { Badge } from '../../kit/state.tsx'
import { type Column, Table } from '../../kit/table.tsx'
import { Text } from '../../kit/text/text.tsx'
import { Time, useNow } from '../../kit/text/time.tsx'
import { visible } from '../../kit/text/visible.ts'
import { toast } from '../../kit/toast.tsx'
import { changed, useLive } from '../../live/queries.ts'
import { usePlace } from '../../shell/router.tsx'
import { useClient } from '../../shell/session.ts'
import { useWords } from '../../words/language.tsx'
import { settingsWords } from '../../words/settings.ts'
import { NewToken } from './new-token.tsx'

type Token = Awaited<ReturnType<Client['tokens']['list']>>['items'][number]

/** Who may ask this server; makes and revokes tokens. */
export function Tokens(): ReactNode {
  const say = useWords(settingsWords)
  const client = useClient()
  const { cursor } = usePlace().query
  const [makes, setMakes] = useState(false)
  const [revoked, revoke] = useState<Token>()
  const tokens = useLive(['tokens', cursor], () =>
    client.tokens.list({ limit: 100, ...(cursor ? { cursor } : {}) }),
  )
  const columns = useColumns(revoke)
  return (
    <Section
      title={say('tokens')}
      actions={
        <Action scope="admin" look="main" onPress={() => setMakes(true)}>
          {say('create')}
        </Action>
      }
    >
      <Loaded query={tokens}>
        {({ items, cursor: next }) => (
          <>
            <Table
              label={say('tokens')}
              rows={items}
              columns={columns}
              rowKey={({ id }) => id}
              empty={
                <Empty icon="settings" title={say('noTokens')}>
                  <p>{say('noTokensNext')}</p>
                </Empty>
              }
            />
            <Pager next={next} />
          </>
        )}
      </Loaded>
      {makes && <NewToken onClose={() => setMakes(false)} />}
      {revoked && <Revoke token={revoked} onClose={() => revoke(undefined)} />}
    </Section>
  )
}

function useColumns(revoke: (token: Token) => void): readonly Column<Token>[] {
  const say = useWords(settingsWords)
  return [
    { key: 'name', head: say('name'), grow: true, cell: ({ name }) => <Text value={name} cut /> },
    { key: 'scope', head: say('scope'), cell: ({ scope }) => <code>{scope}</code> },
    {
      ...{ key: 'namespace', head: say('namespace'), wideOnly: true },
      cell: ({ namespace }) => <Text value={namespace} />,
    },
    {
      ...{ key: 'nodes', head: say('nodes'), wideOnly: true },
      cell: ({ nodes }) =>
        nodes === null ? <span className="aside">–</span> : <Text value={nodes.join(', ')} cut />,
    },
    {
      ...{ key: 'created', head: say('created'), wideOnly: true },
      cell: ({ createdAt }) => <Time at={createdAt} />,
    },
    {
      ...{ key: 'expires', head: say('expires'), wideOnly: true },
      cell: ({ expiresAt }) =>
        expiresAt === null ? <span className="aside">{say('never')}</span> : <Time at={expiresAt} />,
    },
    { key: 'state', head: say('state'), cell: (token) => <TokenState token={token} /> },
    {
      ...{ key: 'revoke', head: say('revoke') },
      cell: (token) =>
        token.revokedAt === null && (
          <Action scope="admin" look="quiet" onPress={() => revoke(token)}>
            {say('revoke')}
          </Action>
        ),
    },
  ]
}

function TokenState({ token: { revokedAt, expiresAt } }: { readonly token: Token }): ReactNode {
  const say = useWords(settingsWords)
  const now = useNow()
  if (revokedAt !== null)
    return (
      <Badge tone="calm" icon="cancelled">
        {say('revoked')}
      </Badge>
    )
  if (expiresAt !== null && expiresAt <= now)
    return (
      <Badge tone="warn" icon="scheduled">
        {say('expired')}
      </Badge>
    )
  return (
    <Badge tone="good" icon="completed">
      {say('live')}
    </Badge>
  )
}

function Revoke({ token, onClose }: { readonly token: Token; readonly onClose: () => void }): ReactNode {
  const say = useWords(settingsWords)
  const client = useClient()
  const confirm = async () => {
    await client.tokens.revoke(token.id)
    toast(say('revokedDone'))
    await changed('tokens', 'audit')
  }
  return (
    <Confirm title={say('revokeOne')} act={say('revoke')} danger onConfirm={confirm} onClose={onClose}>
      <p>{say('revokeMeans', { name: visible(token.name) })}</p>
    </Confirm>
  )
}
