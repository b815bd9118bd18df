import type { ReactNode } from 'react'
import { Button } from '../kit/button.tsx'
import { Icon } from '../kit/icon.tsx'
import { useLiveness } from '../live/connection.ts'
import { useLive } from '../live/queries.ts'
import { useWords } from '../words/language.tsx'
import { shellWords } from '../words/shell.ts'
import { useSignedIn } from './session.ts'

/** A view that failed to load does not poll: this query notices that the server is back. */
const lookMs = { always: 60_000, lost: 5_000 } as const

/** Warns that the server's version changed after this page was loaded: the page's scripts may not fit. */
export function OutdatedBanner(): ReactNode {
  const say = useWords(shellWords)
  const { client, me } = useSignedIn()
  const { version } = me.server
  const { lostAt } = useLiveness()
  const everyMs = lostAt === null ? lookMs.always : lookMs.lost
  const { data: now } = useLive(['me'], () => client.overview.me(), { everyMs })
  if (now === undefined || now.server.version === version) return null
  return (
    <div className="banner" role="status">
      <Icon name="warning" />
      <span>{say('outdated', { from: version, to: now.server.version })}</span>
      <Button onPress={() => location.reload()}>{say('reload')}</Button>
    </div>
  )
}
