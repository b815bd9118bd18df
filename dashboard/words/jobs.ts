import { catalogue } from './catalogue.ts'

export const jobsWords = catalogue({
  state: { en: 'State', zh: '状态' },
  anyState: { en: 'Any state', zh: '全部状态' },
  queue: { en: 'Queue', zh: '队列' },
  anyQueue: { en: 'Any queue', zh: '全部队列' },
  kind: { en: 'Kind', zh: '类型' },
  anyKind: { en: 'Any kind', zh: '全部类型' },
  search: { en: 'Search', zh: '搜索' },
  searchHint: {
    en: 'payload.order.id:42 error:relay "two words"',
    zh: 'payload.order.id:42 error:relay "两个 词"',
  },
  doesNotParse: {
    en: 'This search does not parse: at column {column} it needs {expected}.',
    zh: '无法解析该搜索：第 {column} 列需要 {expected}。',
  },
  stillLooking: { en: 'Searching…', zh: '正在搜索…' },
  howToSearch: { en: 'How to search', zh: '搜索语法' },
  clear: { en: 'Clear filters', zh: '清除筛选' },

  id: { en: 'Id', zh: 'ID' },
  attempt: { en: 'Attempt', zh: '尝试' },
  attemptOf: { en: '{attempt} of {max}', zh: '{attempt}/{max}' },
  when: { en: 'When', zh: '时间' },
  due: { en: 'due', zh: '到期' },
  added: { en: 'added', zh: '添加' },
  started: { en: 'started', zh: '开始' },
  ended: { en: 'ended', zh: '结束' },
  about: { en: 'Error or tags', zh: '错误或标签' },
  shown: {
    en: { one: '{count} job on this page', other: '{count} jobs on this page' },
    zh: '本页 {count} 个作业',
  },
  scanned: {
    en: '{scanned} jobs searched, {found} found',
    zh: '已检查 {scanned} 个作业，找到 {found} 个',
  },
  looking: {
    en: 'Searching: {scanned} jobs so far, {found} found',
    zh: '正在继续查找：已检查 {scanned} 个作业，找到 {found} 个',
  },
  lookOn: { en: 'Search further', zh: '继续查找' },
  stopLooking: { en: 'Stop searching', zh: '停止查找' },

  none: { en: 'No jobs here', zh: '没有作业' },
  noneSoFar: { en: 'None found so far', zh: '暂未找到' },
  noneAtAll: {
    en: 'No jobs in this namespace yet. Add a job, or choose another namespace.',
    zh: '此命名空间还没有作业。请添加作业，或切换命名空间。',
  },
  noneMatch: {
    en: 'No jobs match these filters. Change or clear the filters.',
    zh: '没有符合筛选条件的作业。请放宽或清除筛选。',
  },
  noneYet: {
    en: 'No match among the {scanned} newest jobs.',
    zh: '最新的 {scanned} 个作业中没有匹配项。',
  },

  selected: { en: { one: '{count} selected', other: '{count} selected' }, zh: '已选 {count} 个' },
  retry: { en: 'Retry', zh: '重试' },
  cancel: { en: 'Cancel jobs', zh: '取消作业' },
  delete: { en: 'Delete', zh: '删除' },
  everything: { en: 'All matching jobs', zh: '所有匹配项' },
  retrySome: { en: { one: 'Retry {count} job?', other: 'Retry {count} jobs?' }, zh: '重试 {count} 个作业？' },
  cancelSome: {
    en: { one: 'Cancel {count} job?', other: 'Cancel {count} jobs?' },
    zh: '取消 {count} 个作业？',
  },
  deleteSome: {
    en: { one: 'Delete {count} job?', other: 'Delete {count} jobs?' },
    zh: '删除 {count} 个作业？',
  },
  retryMeans: {
    en: 'The selected jobs run again from their first attempt.',
    zh: '所选作业将从第一次尝试重新运行。',
  },
  cancelMeans: {
    en: 'Jobs that have not started are cancelled now. Workers of running jobs are asked to stop.',
    zh: '等待中的作业立即结束；正在运行的作业会被请求停止。',
  },
  deleteMeans: {
    en: 'Jobs, results and logs are deleted. This cannot be undone.',
    zh: '作业、结果和日志将被删除，无法恢复。',
  },
  counting: {
    en: 'Counting matching jobs… {scanned} searched so far',
    zh: '正在统计匹配项…已检查 {scanned} 个',
  },
  byState: { en: 'Jobs by state', zh: '按状态统计' },
  leftAlone: { en: 'unchanged', zh: '不受影响' },
  runsAgain: {
    en: 'These jobs completed. They run again, and repeat their effects.',
    zh: '这些作业已完成，重试会再次执行并再次产生效果。',
  },
  skipsDependencies: {
    en: 'These jobs start at once, without waiting for their dependencies. Jobs with a lock still wait for it.',
    zh: '这些作业会立即运行，不再等待其依赖。带锁的作业仍需等待锁。',
  },
  chooseState: { en: 'Choose at least one state.', zh: '请至少选择一种状态。' },
  noneFit: { en: 'None of these jobs is in a state that allows this.', zh: '没有处于可操作状态的作业。' },
  everyJob: {
    en: 'No filter is set: this applies to all queues and kinds of the namespace.',
    zh: '未设置筛选：将作用于此命名空间的所有队列和类型。',
  },
  meant: { en: 'Jobs: {search}', zh: '范围：{search}' },
  doneSome: { en: { one: '{count} job: done', other: '{count} jobs: done' }, zh: '{count} 个作业：已完成' },
  doneBut: {
    en: '{count} done, {failed} failed: {why}',
    zh: '{count} 个已完成，{failed} 个失败：{why}',
  },
  begun: {
    en: 'Started. It continues after you leave this page.',
    zh: '已开始。即使离开本页也会继续。',
  },

  operations: { en: 'Bulk operations', zh: '批量操作' },
  retryOperation: { en: 'Retry', zh: '重试' },
  cancelOperation: { en: 'Cancel', zh: '取消' },
  deleteOperation: { en: 'Delete', zh: '删除' },
  progress: { en: '{done} done, {skipped} skipped', zh: '完成 {done}，跳过 {skipped}' },
  stop: { en: 'Stop', zh: '停止' },
  stopped: { en: 'Stopped. Finished changes stay.', zh: '已停止；已完成的部分保留。' },

  helpLead: {
    en: 'All terms must match. A leading minus excludes. Quote values with spaces or special characters.',
    zh: '所有条件须同时满足；前面加减号表示取反。含空格或符号的值请加引号。',
  },
  helpWords: { en: 'in payload, kind, id or error', zh: '出现在内容、类型、ID 或错误中' },
  helpExact: {
    en: 'exact kind; also queue, id, tag, key',
    zh: '类型完全一致；queue、id、tag、key 同理',
  },
  helpPrefix: { en: 'begins with', zh: '以此开头' },
  helpPayload: { en: 'value of a payload field', zh: '内容中该位置的值' },
  helpTime: { en: 'by time: a date, an instant, or a span from now', zh: '按时间：日期、时刻或相对时长' },
  helpAttempt: { en: 'by number of attempts', zh: '按尝试次数' },
  helpNot: { en: 'excludes', zh: '取反' },
})
