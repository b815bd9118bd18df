import { type ReactNode, useRef, useState } from 'react'
import { jobStates } from '../../../src/http/client/index.ts'
import { Button } from '../../kit/button.tsx'
import { Dialog } from '../../kit/dialog.tsx'
import { Input, Select } from '../../kit/field.tsx'
import { useKeys } from '../../kit/keys.ts'
import { Text } from '../../kit/text/text.tsx'
import { visible } from '../../kit/text/visible.ts'
import { useQueues } from '../../live/queues.ts'
import { go, useFilter, usePlace } from '../../shell/router.tsx'
import { jobsWords } from '../../words/jobs.ts'
import { kitWords } from '../../words/kit.ts'
import { useWords } from '../../words/language.tsx'
import { filtersOf } from './filters.ts'

export interface ToolbarProps {
  /** Why the search does not parse. */
  readonly problem: string | undefined
  /** The answer to the search has not come yet. */
  readonly isLooking: boolean
}

/** The filters of the list; each is in the address. */
export function Toolbar({ problem, isLooking }: ToolbarProps): ReactNode {
  const say = useWords(jobsWords)
  const sayKit = useWords(kitWords)
  const { query } = usePlace()
  const filters = filtersOf(query)
  const [, setState] = useFilter('state')
  const [queue, setQueue] = useFilter('queue')
  const [kind, setKind] = useFilter('kind')
  const [search, setSearch] = useFilter('search')
  const [helps, setHelps] = useState(false)
  const field = useRef<HTMLInputElement>(null)
  // On this page `/` focuses this search, not the one in the top bar.
  useKeys({ '/': () => field.current?.select() })
  const { data: queues } = useQueues(15_000)
  const names = new Set([...(queues?.items ?? []).map((one) => one.queue), ...(queue ? [queue] : [])])
  return (
    <div className="toolbar">
      <Select
        bare
        label={say('state')}
        value={filters.state ?? ''}
        options={[['', say('anyState')], ...jobStates.map((state) => [state, sayKit(state)] as const)]}
        onChange={setState}
      />
      <Select
        bare
        label={say('queue')}
        value={queue}
        options={[['', say('anyQueue')], ...[...names].sort().map((name) => [name, visible(name)] as const)]}
        onChange={setQueue}
      />
      <Input bare label={say('kind')} placeholder={say('anyKind')} value={kind} onChange={setKind} />
      <span className="jobs-search">
        <Input
          bare
          mono
          ref={field}
          type="search"
          label={say('search')}
          placeholder={say('searchHint')}
          value={search}
          onChange={(value) => setSearch(value.trim())}
          invalid={problem !== undefined}
          hint={
            problem === undefined ? (
              isLooking && search !== '' ? (
                say('stillLooking')
              ) : undefined
            ) : (
              <Text value={problem} />
            )
          }
        />
      </span>
      <Button look="quiet" icon="info" label={say('howToSearch')} onPress={() => setHelps(true)}>
        {null}
      </Button>
      {Object.keys(filters).length > 0 && (
        <Button look="quiet" icon="dead" onPress={() => go('jobs')}>
          {say('clear')}
        </Button>
      )}
      {helps && <SearchHelp onClose={() => setHelps(false)} />}
    </div>
  )
}

const examples = [
  ['relay "is away"', 'helpWords'],
  ['kind:mail', 'helpExact'],
  ['kind:mail*', 'helpPrefix'],
  ['payload.order.id:42', 'helpPayload'],
  ['created>-2h finished<2026-11-01', 'helpTime'],
  ['attempt>=3', 'helpAttempt'],
  ['-tag:vip', 'helpNot'],
] as const

function SearchHelp({ onClose }: { readonly onClose: () => void }): ReactNode {
  const say = useWords(jobsWords)
  return (
    <Dialog title={say('howToSearch')} onClose={onClose} wide>
      <div>
        <p>{say('helpLead')}</p>
        <dl className="search-help">
          {examples.map(([example, word]) => (
            <div key={example}>
              <dt>
                <code>{example}</code>
              </dt>
              <dd>{say(word)}</dd>
            </div>
          ))}
        </dl>
      </div>
    </Dialog>
  )
}
